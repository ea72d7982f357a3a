# SPDX-License-Identifier: Apache-2.0
"""The systemd unit: an agent that can't start stays down instead of filling the disk with files; the rights that it has, and those that
drop-ins in docs/serve.md add."""

import configparser
import re

import help_pages
from stalltrace import ROOT, Case

SECONDS = {"s": 1, "min": 60, "h": 3600}
OF_A_CHANGE_OF_USER = {"CAP_SETUID", "CAP_SETGID"}  # what base/untrusted/sandbox's become_nobody needs


def parsed(text):
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read_string(text)
    return unit


def unit_file():
    return parsed((ROOT / "packaging" / "stalltrace.service").read_text())


def drop_ins(page):
    """What follows [Service] in the page's drop-ins, each a list of settings with their values, in the page's order."""
    blocks = re.findall(r"^    \[Service\]\n((?:    .+\n)+)", (ROOT / "docs" / page).read_text(), re.MULTILINE)
    return [[line.strip().split("=", 1) for line in block.splitlines()] for block in blocks]


def words_of(command):
    """stalltrace's arguments in an ExecStart: each flag with its value, if it has one."""
    return set(re.findall(r"--[a-z-]+(?: (?!--)[^' ]\S*)?", command))


def seconds(text):
    unit = text.lstrip("0123456789")
    return int(text.removesuffix(unit)) * SECONDS[unit or "s"]


class ServiceUnit(Case):
    def test_its_limit_of_starts_is_reached_by_its_own_restarts(self):
        unit = unit_file()
        starts = int(unit["Unit"]["StartLimitBurst"])
        between = seconds(unit["Service"]["RestartSec"])
        self.assertGreater(seconds(unit["Unit"]["StartLimitIntervalSec"]), 2 * starts * between)

    def test_it_traces_and_can_take_no_other_users_id(self):
        service = unit_file()["Service"]
        self.assertIn("stalltrace trace ", service["ExecStart"])
        self.assertNotIn("--serve", service["ExecStart"])
        self.assertNotIn(service["User"], ("root", "0"))
        self.assertEqual(service["AmbientCapabilities"], service["CapabilityBoundingSet"])
        self.assertEqual(OF_A_CHANGE_OF_USER & set(service["CapabilityBoundingSet"].split()), set())

    def test_the_drop_in_that_serves_adds_flags_and_no_rights(self):
        served = drop_ins("serve.md")[0]
        self.assertEqual({name for name, _ in served}, {"Environment", "ExecStart"})
        before, command = [value for name, value in served if name == "ExecStart"]
        self.assertEqual(before, "", "systemd would keep both")
        own = words_of(unit_file()["Service"]["ExecStart"])
        self.assertEqual({flag.split()[0] for flag in own}, {"--group-readable", "--max-size", "--out"})
        self.assertEqual(own - words_of(command), set())
        added = {flag.split()[0] for flag in words_of(command) - own}
        self.assertEqual(added, {"--serve", "--token-file", "--allow-preflight"})
        self.assertEqual(added - set(help_pages.flags("trace")), set())
        folder = dict(value.split("=", 1) for name, value in served if name == "Environment")["TMPDIR"]
        self.assertEqual(folder, "/var/lib/" + unit_file()["Service"]["StateDirectory"], "all else is read-only")

    def test_the_drop_in_of_root_adds_what_a_change_of_user_needs(self):
        _, added = drop_ins("serve.md")
        self.assertEqual([name for name, _ in added], ["CapabilityBoundingSet"])
        self.assertEqual(set(added[0][1].split()), OF_A_CHANGE_OF_USER)
        of_root, = [one for one in drop_ins("cluster.md") if ["User", "root"] in one]
        self.assertEqual(OF_A_CHANGE_OF_USER & set(dict(map(tuple, of_root))["CapabilityBoundingSet"].split()), set())
