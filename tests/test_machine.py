"""The machine is described in names that people know."""

from __future__ import annotations

import pytest

from fusion import machine

ARM = """processor\t: {cpu}
BogoMIPS\t: 200.00
Features\t: fp asimd sve sme
CPU implementer\t: {implementer}
CPU architecture: 8
CPU variant\t: {variant}
CPU part\t: {part}
CPU revision\t: {revision}

"""


def cores(*each):
    return "".join(
        ARM.format(cpu=cpu, implementer=made, part=part, variant=variant, revision=revision)
        for cpu, (made, part, variant, revision) in enumerate(each)
    )


@pytest.mark.parametrize(
    ("cpuinfo", "model"),
    [
        ("processor\t: 0\nmodel\t\t: 1\nmodel name\t: AMD EPYC\n", "AMD EPYC"),
        (cores(("0x41", "0xd4f", "0x0", "1")) * 2, "Arm Neoverse-V2 r0p1"),
        (cores(("0x48", "0xd01", "0x1", "0")), "HiSilicon Kunpeng-920 (TaiShan v110) r1p0"),
        (cores(("0x48", "0xd99", "0x0", "0")), "HiSilicon part 0xd99 r0p0"),
        (cores(("0x99", "0x001", "0x0", "0")), "Arm implementer 0x99 part 0x001 r0p0"),
        (
            cores(("0x41", "0xd87", "0x0", "1"), ("0x41", "0xd85", "0x0", "1")),
            "Arm Cortex-A725 r0p1 + Arm Cortex-X925 r0p1",
        ),
        (
            "Processor\t: AArch64 Processor rev 0 (aarch64)\n"
            + cores(("0x70", "0x662", "0x1", "2")),
            "Phytium FTC662 r1p2",
        ),
        (
            cores(("0x41", "0xd0c", "0x3", "1")).replace(
                "BogoMIPS", "model name\t: ARMv8 Processor rev 1 (v8l)\nBogoMIPS"
            ),
            "Arm Neoverse-N1 r3p1",
        ),
        ("processor\t: 0\nmodel name\t: Phytium,FT-2000+/64\n", "Phytium,FT-2000+/64"),
        ("processor\t: 0\ncpu\t\t: POWER9, altivec supported\n", "POWER9, altivec supported"),
    ],
)
def test_cpu_is_named(tmp_path, cpuinfo, model):
    """Where the kernel gives numbers for a name, the numbers are looked up."""
    (tmp_path / "cpuinfo").write_text(cpuinfo)
    assert machine.cpu_model(tmp_path) == model


def test_cpu_without_cpuinfo_has_some_name(tmp_path):
    """Nothing is raised where the kernel tells nothing."""
    assert machine.cpu_model(tmp_path)
