"""Trials of what the promises rest on, on the user's own disk and kernel: `kranzq check --prove`.

Everything happens in a scratch folder on the checkout's file system, with the same functions and the same program that
work in the checkout. What no trial can show, a power cut, is said by what the file system is known to be.
"""

from __future__ import annotations
