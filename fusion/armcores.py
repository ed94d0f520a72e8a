"""Name Arm cores by the numbers of their identification register (MIDR_EL1).

The kernel gives a core's implementer and part as numbers alone. The numbers are those of Arm's and
the vendors' reference manuals; what is not listed keeps its numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_IMPLEMENTERS = {
    0x41: "Arm",
    0x42: "Broadcom",
    0x43: "Cavium",
    0x46: "Fujitsu",
    0x48: "HiSilicon",
    0x4E: "NVIDIA",
    0x50: "APM",
    0x51: "Qualcomm",
    0x61: "Apple",
    0x6D: "Microsoft",
    0x70: "Phytium",
    0xC0: "Ampere",
}
_PARTS = {
    0x41: {
        0xD03: "Cortex-A53",
        0xD05: "Cortex-A55",
        0xD07: "Cortex-A57",
        0xD08: "Cortex-A72",
        0xD09: "Cortex-A73",
        0xD0A: "Cortex-A75",
        0xD0B: "Cortex-A76",
        0xD0C: "Neoverse-N1",
        0xD0D: "Cortex-A77",
        0xD40: "Neoverse-V1",
        0xD41: "Cortex-A78",
        0xD42: "Cortex-A78AE",
        0xD44: "Cortex-X1",
        0xD46: "Cortex-A510",
        0xD47: "Cortex-A710",
        0xD48: "Cortex-X2",
        0xD49: "Neoverse-N2",
        0xD4A: "Neoverse-E1",
        0xD4D: "Cortex-A715",
        0xD4E: "Cortex-X3",
        0xD4F: "Neoverse-V2",
        0xD80: "Cortex-A520",
        0xD81: "Cortex-A720",
        0xD82: "Cortex-X4",
        0xD83: "Neoverse-V3AE",
        0xD84: "Neoverse-V3",
        0xD85: "Cortex-X925",
        0xD87: "Cortex-A725",
        0xD8E: "Neoverse-N3",
    },
    0x42: {0x516: "ThunderX2"},
    0x43: {0x0A1: "ThunderX", 0x0AF: "ThunderX2", 0x0B8: "ThunderX3"},
    0x46: {0x001: "A64FX", 0x003: "MONAKA"},
    0x48: {0xD01: "Kunpeng-920 (TaiShan v110)", 0xD02: "TaiShan v120", 0xD40: "Cortex-A76"},
    0x4E: {0x004: "Carmel", 0x010: "Olympus"},
    0x50: {0x000: "X-Gene"},
    0x51: {0x001: "Oryon", 0xC00: "Falkor", 0xC01: "Saphira"},
    0x61: {
        0x022: "M1 Icestorm",
        0x023: "M1 Firestorm",
        0x032: "M2 Blizzard",
        0x033: "M2 Avalanche",
    },
    0x6D: {0xD49: "Azure Cobalt 100"},
    0x70: {0x660: "FTC660", 0x661: "FTC661", 0x662: "FTC662", 0x663: "FTC663", 0x862: "FTC862"},
    0xC0: {0xAC3: "AmpereOne", 0xAC4: "AmpereOne A"},
}
_FIELDS = ("implementer", "part", "variant", "revision")


def names(cpuinfo: str) -> str | None:
    """Return the cores of ``/proc/cpuinfo``, each kind once in its order; None where it has none.

    A core is ``Arm Neoverse-V2 r0p1``: implementer, part, variant and revision.
    """
    blocks = re.split(r"^processor\s*:", cpuinfo, flags=re.M)
    found = dict.fromkeys(core for block in blocks if (core := _core(block)))
    return " + ".join(found) or None


def _core(block: str) -> str | None:
    fields = {name: re.search(rf"^CPU {name}\s*:\s*(\w+)$", block, re.M) for name in _FIELDS}
    told = {name: line[1] for name, line in fields.items() if line}
    if not {"implementer", "part"} <= told.keys():
        return None
    stepping = f"r{int(told.get('variant', '0'), 0)}p{told.get('revision', '0')}"
    return f"{_name(told)} {stepping}"


def _name(told: Mapping[str, str]) -> str:
    implementer, part = int(told["implementer"], 0), int(told["part"], 0)
    maker = _IMPLEMENTERS.get(implementer, f"Arm implementer {told['implementer']}")
    return f"{maker} {_PARTS.get(implementer, {}).get(part, 'part ' + told['part'])}"
