import pytest
from pydantic import ValidationError

from agentserve.core.elements import ElementTarget, Selector


@pytest.mark.parametrize("engine", ["css", "xpath", "text", "aria", "test_id"])
def test_a_selector_without_a_value_and_a_role_is_refused(engine):
    with pytest.raises(ValidationError, match="needs a value, or a role"):
        Selector(engine=engine, value="")


def test_a_role_alone_is_a_selector():
    selector = Selector(engine="aria", value="", role="button", nth=-1)
    target = ElementTarget(selectors=((selector,),))
    assert ElementTarget.model_validate_json(target.model_dump_json(), strict=True) == target
