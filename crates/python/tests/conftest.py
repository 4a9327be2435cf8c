pytest_plugins = ["pytester"]
import pytest

import colibri


@pytest.fixture
def conn(tmp_path):
    connection = colibri.connect(tmp_path / "db", durability="nosync")
    yield connection
    connection.close()
