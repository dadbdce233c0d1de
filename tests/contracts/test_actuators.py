"""Our own actuators keep what every actuator must keep, and the kit catches those that do not."""

from simulators.plant import Setpoints
from tests.contracts.actuator_kit import Stage, assert_conforms
from tests.unit.actuators.sites import PLAIN, VERL, site_of
from tuner.actuators.registry import make


def test_the_dry_run_conforms() -> None:
    site = site_of("verl", VERL)
    stage = Stage(lambda: make("dry_run", {}, site), Setpoints(gpus_trainer=48, gpus_generator=208), changes=False)
    assert_conforms(stage)


def test_the_dry_run_conforms_where_no_framework_is_known() -> None:
    stage = Stage(
        lambda: make("dry_run", {"knobs": ["max_in_flight"]}, PLAIN), Setpoints(max_in_flight=512), changes=False
    )
    assert_conforms(stage)
