"""The command line: parse, call one function, render. One file a family of verbs, imported when the verb is used."""

from __future__ import annotations
