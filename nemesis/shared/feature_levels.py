"""Raises and lowers the finalized levels of features (UpdateFeatures), and waits until every server knows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from harness.model.fault_and_generator_protocols import Env
from nemesis.shared.admin_fault import admin
from nemesis.shared.effects import EFFECT_TIMEOUT_S, wait_for
from nemesis.shared.upgrade_steps import cluster_of, reported

KNOWN_S: Final = EFFECT_TIMEOUT_S


def above(now: Mapping[str, int], wanted: Mapping[str, int]) -> dict[str, int]:
    """Returns the wanted levels that are higher than those of now."""
    return {name: level for name, level in sorted(wanted.items()) if level > now.get(name, 0)}


def below(now: Mapping[str, int], wanted: Mapping[str, int]) -> dict[str, int]:
    """Returns feature -> wanted level, 0 if it is not wanted, for the features that now have higher levels."""
    return {name: wanted.get(name, 0) for name, level in sorted(now.items()) if level > wanted.get(name, 0)}


def finalized(env: Env) -> dict[str, int]:
    """Returns feature -> finalized level, as a broker reports it. Raises ClusterTrouble."""
    return dict(admin(env, "features") or {})


def change(env: Env, levels: Mapping[str, int], downgrade: bool) -> dict[str, Any]:
    """Sets levels of features. Returns the fields of the op: the levels before and after, or why Kafka refuses.

    `known_by_all` says whether every server then reports the new levels. Raises ClusterTrouble.
    """
    before = finalized(env)
    asked = {"asked": dict(levels), "levels_before": before}
    refused = admin(env, "set_features", levels=dict(levels), downgrade=downgrade)
    if refused:
        return {**asked, "refused": refused}
    known = bool(wait_for(lambda: _known(env, levels), KNOWN_S))
    return {**asked, "levels": finalized(env), "known_by_all": known}


def _known(env: Env, levels: Mapping[str, int]) -> bool:
    """Returns whether every server reports these levels."""
    return all(
        found is not None and all(found[1].get(name, 0) == level for name, level in levels.items())
        for found in reported(env).values()
    )


def supported(env: Env, version: str) -> bool:
    """Returns whether a server of this version supports the levels that are finalized now. Raises ClusterTrouble."""
    return not below(finalized(env), cluster_of(env).new_levels(version))
