# SPDX-License-Identifier: MIT
"""What `fleet` brings: `measure` on several machines at once, and workers of a Dask cluster as
machines."""

from linewright.wings import Wing

WING = Wing(
    several_machines="linewright.fleet.several_machines:measure_and_show",
    extras={"fleet": ("distributed", "scipy")},
    transports={"dask": "linewright.fleet.dask_transport:DaskTransport"},
)
