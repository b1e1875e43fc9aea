"""What the fittings say, in shell: pure text. Whatever happens, a person's own git goes on.

Outside of any mission a guard starts nothing at all; without kranzq nothing is enqueued. Only inside a mission a guard
without kranzq refuses: there nobody could tell whether the claim is still its own.
"""

from __future__ import annotations

import shlex

from kranzq.dispatch.inside import OF_A_RUN, OF_AN_ITEM
from kranzq.errors import EXIT_BUSY
from kranzq.fitting.kinds import Kind, Wish

INSIDE = "".join(f"${{{name}-}}" for name in (*OF_A_RUN, *OF_AN_ITEM))
"""In shell: not empty inside a mission or an item's command."""
_THERE = "command -v kranzq >/dev/null 2>&1"
_COMMIT = 'kranzq_commit=$(git rev-parse --verify HEAD) && [ -n "$kranzq_commit" ]'
_MISSING = "kranzq: not found in PATH, so nobody can tell whether the claim of this mission is still its own; refused."


def script_body(kind: Kind, wish: Wish) -> str:
    """The lines of a block in one of git's scripts."""
    head = f"# Put here by kranzq. To take it out: kranzq hook remove {kind.name}\n"
    return head + (_enqueue(kind, wish) if kind.enqueues else _guard())


def by_hand(kind: Kind, wish: Wish) -> str:
    """What a script in another language may start itself to do the same, in one line of shell."""
    if not kind.enqueues:
        return "kranzq guard >/dev/null </dev/null || exit $?"
    inside = "" if wish.missions_too else f'[ -n "{INSIDE}" ] || '
    return f"{inside}{{ {_COMMIT} && {_enqueue_commit(kind, wish)}; }} || :"


def approval_command(kind: Kind, wish: Wish) -> str:
    """What an agent's host runs when a person has approved a plan; what was approved is on the input.

    A host takes the exit code 2 for a refusal, so every fault becomes 1, which it only shows.
    """
    mission = f'{_named(kind, wish)}"$h"'
    enqueue = f'kranzq -C "${{CLAUDE_PROJECT_DIR:-.}}" enqueue {mission} {_words(wish, file="$d/approval.json")}'
    # no pipe: what fails in one is seen by nobody, and without a hash all plans would be one mission
    hashed = 'h=$(sha256sum <"$d/approval.json") && h=$(printf %.16s "$h") && [ -n "$h" ]'
    act = f'd=$(mktemp -d) && cat >"$d/approval.json" && {hashed} && {enqueue} >/dev/null'
    return f'{_unless_inside(wish)}{_THERE} || exit 0; {act}; c=$?; rm -rf "$d"; [ "$c" -eq 0 ] || exit 1'


def stop_command() -> str:
    """What an agent's host runs when the agent stops: its person is told when the work has lost its claim."""
    return f'[ -z "{INSIDE}" ] || kranzq guard >/dev/null </dev/null || exit 1'


def ci_job(kind: Kind, wish: Wish) -> str:
    """A job for a CI, in YAML that most of them understand with another name here and there."""
    return f"""\
# A job of kranzq, to be put among the jobs of your CI. Nothing was written.
# KRANZQ_SERVER and KRANZQ_TOKEN come from the secrets of the CI; REVISION and BRANCH are its own variables
# for the commit and the branch; where one is empty the job fails. The image needs: pip install 'kranzq[client]'
kranzq:
  script:
    # A branch work/ITEM-ATTEMPT may be merged only while, or after, that attempt holds the item; else the job fails.
    - |
      case ${{BRANCH:?names no branch}} in
        work/*-[0-9]*)
          work=${{BRANCH#work/}}
          kranzq guard --item "${{work%-*}}" --attempt "${{work##*-}}" ;;
      esac
    # One mission a commit, however often the job is run again.
    - |
      kranzq enqueue {_named(kind, wish)}"${{REVISION:?names no commit}}" {_words(wish)}
"""


def _guard() -> str:
    return f"""\
if [ -n "{INSIDE}" ]; then
    if {_THERE}; then
        kranzq guard >/dev/null </dev/null || exit $?
    else
        echo {shlex.quote(_MISSING)} >&2
        exit {EXIT_BUSY}
    fi
fi
"""


def _enqueue(kind: Kind, wish: Wish) -> str:
    inside = "" if wish.missions_too else f'[ -z "{INSIDE}" ] && '
    return f"""\
if {inside}{_THERE} && {_COMMIT}; then
    {_enqueue_commit(kind, wish)} || :
fi
"""


def _enqueue_commit(kind: Kind, wish: Wish) -> str:
    return f'kranzq enqueue {_named(kind, wish)}"$kranzq_commit" {_words(wish)} </dev/null >/dev/null'


def _named(kind: Kind, wish: Wish) -> str:
    """What the mission's id begins with. Whatever follows must not be empty, or all of them would be one mission."""
    return shlex.quote(f"{wish.mission or kind.mission}-")


def _unless_inside(wish: Wish) -> str:
    return "" if wish.missions_too else f'[ -z "{INSIDE}" ] || exit 0; '


def _words(wish: Wish, file: str = "") -> str:
    words = shlex.join(wish.words()) + (f' --file "{file}"' if file else "")
    return f"{words} -- {shlex.join(wish.command)}" if wish.command else words
