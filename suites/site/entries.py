"""Cases and machines as the scripts of the pages read them: plain values, with the text of every number beside it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from suites.harness.judge.judged_case import Lead, get_latency
from suites.harness.present import notes, units
from suites.harness.present.overview import get_time, is_per_token
from suites.harness.record.reasons import clean_line
from suites.harness.record.schema import Summary
from suites.site.page import Site
from suites.site.places import Place, describe_run

Entry = dict[str, Any]


def list_entries(site: Site, model: str | None = None) -> list[Entry]:
    """One for each case of each machine, in the order of machines, models and cases.

    Args:
        site: what is known.
        model: only its cases.
    """
    order = {machine: number for number, machine in enumerate(site.machines)}
    chosen = [place for place in site.places if model in (None, place.row.model)]
    chosen.sort(key=lambda place: (order[place.machine], place.row.model, _sort_sizes(place.row), place.row.threads))
    return [_describe(site, place) for place in chosen]


def describe_machines(site: Site, names: Collection[str] | None = None) -> list[Entry]:
    """Name and description of machines, in the order of `Site.machines`.

    Args:
        site: what is known.
        names: of the machines; None: of all that measured a case.
    """
    chosen = {place.machine for place in site.places} if names is None else names
    return [
        {"name": name, "text": f"{known.cpu}, {known.cores} cores", "title": name}
        for name, known in site.machines.items()
        if name in chosen
    ]


def _sort_sizes(row: Summary) -> tuple[Any, ...]:
    return tuple(sorted(row.shape.items())), tuple(sorted((key, str(one)) for key, one in row.options.items()))


def _describe(site: Site, place: Place) -> Entry:
    one, row, run = place.judged, place.row, place.run
    fastest = one.timed[0] if one.timed else None
    return {
        **describe_run(run),
        "model": row.model,
        "page": f"{site.models[row.model]}.html",
        "case": one.case,
        "name": site.names[one.case],
        "threads": row.threads,
        "precision": row.precision,
        "device": row.device,
        "io": row.io,
        "suite": run.environment.suite,
        "floor": one.floor,
        "floor_text": "" if one.floor is None else units.times(1 + one.floor),
        "doubtful": one.is_doubtful,
        "marks": notes.write_marks(one),
        "notes": notes.explain_case(one),
        "per": "token" if fastest is not None and is_per_token(fastest) else "call",
        "engine": None if one.engine is None else one.engine.backend,
        "best": None if one.lead is None else describe_lead(one.lead),
        "first": one.is_first and one.lead is not None,
        "fastest": None if fastest is None else fastest.backend,
        # forms of another backend share a column, which shows the fastest
        "cells": {column: describe_row(place, found) for column, found in one.best_forms().items()},
    }


def describe_row(place: Place, row: Summary) -> Entry:
    """One backend in a case: its time, and the engine against it."""
    lead = place.leads.get(row.backend)
    return {
        "label": row.backend,
        "role": row.role,
        "status": row.status,
        "reason": None if row.status == "ok" else clean_line(row.reason),
        "fault": place.faults.get(row.backend),
        "seconds": None if row.latency is None else get_time(row),
        "text": row.status if row.latency is None else units.seconds(get_time(row)),
        "lead": None if lead is None else describe_lead(lead),
    }


def describe_lead(lead: Lead) -> Entry:
    """The engine against one backend: above 1 the engine is faster."""
    return {
        "other": lead.other,
        "value": lead.speed.value,
        "low": lead.speed.low,
        "high": lead.speed.high,
        "text": units.times(lead.speed.value),
        "interval": units.interval(lead.speed),
        "verdict": lead.verdict,
        "detectable": lead.detectable,
    }


def list_numbers(place: Place) -> Iterator[Mapping[str, Any]]:
    """The raw numbers of a case: a line for each backend."""
    for label, row in place.judged.rows.items():
        lead = place.leads.get(label)
        yield {
            "machine": place.machine,
            "run": place.run.name,
            "case": place.judged.case,
            "model": row.model,
            "threads": row.threads,
            "precision": row.precision,
            "backend": label,
            "status": row.status,
            "seconds_per_call": None if row.latency is None else get_latency(row),
            "seconds_per_token": row.s_per_token.decode if row.s_per_token is not None else None,
            "engine_speed": None if lead is None else lead.speed.value,
            "engine_speed_low": None if lead is None else lead.speed.low,
            "engine_speed_high": None if lead is None else lead.speed.high,
            "engine_verdict": None if lead is None else lead.verdict,
            "superseded": place.faults.get(label),
        }
