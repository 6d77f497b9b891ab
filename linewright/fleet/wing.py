"""What `fleet` brings: its command, `measure` on several machines at once, and workers of a Dask
cluster as machines."""

from linewright.wings import Wing

WING = Wing(
    services={
        "several machines": "linewright.fleet.several_machines:measure_and_show",
        "transport": "linewright.fleet.dask_transport:TRANSPORT",
    }
)
