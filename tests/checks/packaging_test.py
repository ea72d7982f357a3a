# SPDX-License-Identifier: Apache-2.0
"""The systemd unit: an agent that can't start stays down instead of filling the disk with files."""

import configparser

from stalltrace import ROOT, Case

SECONDS = {"s": 1, "min": 60, "h": 3600}


def seconds(text):
    unit = text.lstrip("0123456789")
    return int(text.removesuffix(unit)) * SECONDS[unit or "s"]


class ServiceUnit(Case):
    def test_its_limit_of_starts_is_reached_by_its_own_restarts(self):
        unit = configparser.ConfigParser(strict=False, interpolation=None)
        unit.optionxform = str
        unit.read(ROOT / "packaging" / "stalltrace.service")
        starts = int(unit["Unit"]["StartLimitBurst"])
        between = seconds(unit["Service"]["RestartSec"])
        self.assertGreater(seconds(unit["Unit"]["StartLimitIntervalSec"]), 2 * starts * between)
