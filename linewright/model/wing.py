"""What `model` brings: simulated machines as targets, and the commands about them."""

from linewright.wings import TargetKind, Wing

WING = Wing(
    targets={"model": TargetKind("model:NAME", "linewright.model.simulated_target:open_model")}
)
