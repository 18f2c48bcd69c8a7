"""The verdicts of the whole run."""

from ..verdicts import Verdicts

verdicts = Verdicts()
say, same = verdicts.verdict, verdicts.same
