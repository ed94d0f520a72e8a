def pytest_addoption(parser):
    parser.addoption("--level", default="core")
