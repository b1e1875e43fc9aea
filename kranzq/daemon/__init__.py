"""Turns for ever: wait for something to do, do a turn, repeat; and the rules of stopping, which `drain` shares."""

from __future__ import annotations
