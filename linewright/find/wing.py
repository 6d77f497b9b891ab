# SPDX-License-Identifier: MIT
"""What `find` brings: its command, the schemas of what that writes, and its part of the page."""

from linewright.wings import Wing

WING = Wing(
    page_section="linewright.find.result_document:section",
    schemas="linewright.find.results:schemas",
)
