"""Name what a runner and its child agree on: environment variables, the case file, its events."""

CONFIG_VARIABLE = "FLAGGEMS_FUSION_METRICS_CONFIG"
KEY_VARIABLE = "FLAGGEMS_FUSION_METRICS_KEY"
CASE_FILE = "cases.jsonl"
# A child that cannot write its case file ends with this exit code (EX_IOERR of sysexits.h).
UNWRITABLE = 74
METRICS = ("logical_flops", "logical_bytes")

# History of the case file's format, newest last:
# 1  events session, collect, test_started, test, case (states started, measured, failed), end.
# 2  session and end have the pinning in force; a case has the bytes of the call's tensors.
CASE_FORMAT = 2
