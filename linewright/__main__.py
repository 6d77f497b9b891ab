# SPDX-License-Identifier: MIT
"""`python -m linewright` is the `linewright` command."""

import sys

from linewright.cli import main

sys.exit(main())
