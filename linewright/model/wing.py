# SPDX-License-Identifier: MIT
"""What `model` brings: simulated machines as targets, their figures, and commands about them."""

from linewright.wings import TargetKind, Wing

WING = Wing(
    targets={
        "model": TargetKind(
            "model:NAME",
            "linewright.model.simulated_target:open_model",
            settings={"draws": "draws=20", "scheduler": "scheduler=tcp://…"},
            recorded_as="simulated",
        )
    },
    extras={"calibration": ("emcee", "scipy"), "fleet": ("distributed", "scipy")},
    listing="linewright.model.machine_file:listing",
    cell_columns="linewright.model.drawn_figures:COLUMNS",
    cell_lines="linewright.model.drawn_figures:lines",
    flags="linewright.model.drawn_figures:FLAGS",
)
