"""All that can be known of a configuration before anything runs."""

from pathlib import Path
from typing import Any, NamedTuple

from subtune.config import Config
from subtune.plan import Plan, plan
from subtune.submission.planned import form


class Preflight(NamedTuple):
    """What a configuration asks for: every stage, and the scores that the GLUE server returns.

    ``forms`` has the rows of `subtune.submission.planned.form` of all experiments.
    """

    plan: Plan
    forms: list[dict[str, Any]]


def preflight(config: Config) -> Preflight:
    """Lay out all that a configuration asks for; its files and models are looked at.

    Raises:
        SubtuneError: something that it names is missing, or not what it should be.
    """
    planned = plan(config)
    forms = [row for name in config.experiments for row in form(config, name)]
    if config.test_scores:
        # Tables take a second to read, which planning does not need.
        from subtune.submission import returned_scores

        returned_scores.read(Path(config.test_scores), forms)
    return Preflight(planned, forms)
