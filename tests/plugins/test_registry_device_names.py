"""Device names as users write them."""

from __future__ import annotations

import pytest

from tensocket_plugins.contract import ArgumentTypeError, Device, InvalidDeviceIndex, UnknownDevice, parse_device


@pytest.mark.parametrize(("given", "device", "text"), [
    (("cpu",), Device("cpu"), "cpu"),
    (("opencl:0",), Device("opencl", 0), "opencl:0"),
    (("my_chip2:17",), Device("my_chip2", 17), "my_chip2:17"),
    (("cuda", 1), Device("cuda", 1), "cuda:1"),
    ((Device("cuda", 3),), Device("cuda", 3), "cuda:3"),
    (("a" * 32,), Device("a" * 32), "a" * 32),
])
def test_names(given, device, text):
    assert parse_device(*given) == device
    assert str(parse_device(*given)) == text
    assert eval(repr(device), {"device": lambda type, index=None: Device(type, index)}) == device


@pytest.mark.parametrize("name", ["", ":", ":0", "c", "9x", "c pu", "a" * 33, "_cpu", "ärger", "cpu\n", "９９"])
def test_names_of_the_wrong_form(name):
    with pytest.raises(UnknownDevice, match="a device name is a lower-case word of 2 to 32 letters, digits and '_', "
                                            "with an optional ':index'"):
        parse_device(name)


@pytest.mark.parametrize("name", ["cpu:", "cpu:01", "cpu:-1", "cpu:1.0", "cpu:x", "cpu:0:0", "cpu: 0", "cpu:٣",
                                  "cpu:1\n", "cpu:1234567890"])
def test_indices_of_the_wrong_form(name):
    with pytest.raises(InvalidDeviceIndex, match="the index after ':' is a non-negative decimal number without leading "
                                                 "zeros, given once — pass 'cpu' or 'cpu:0'"):
        parse_device(name)


@pytest.mark.parametrize("index", [-1, 1.0, "0", True])
def test_separate_indices_of_the_wrong_kind(index):
    with pytest.raises(InvalidDeviceIndex, match=r"\[device\] index .* — a device index is a non-negative int — pass"):
        parse_device("cpu", index)


def test_index_given_twice():
    with pytest.raises(InvalidDeviceIndex, match=r"device 'cpu:0' — .*given once"):
        parse_device("cpu:0", 1)


@pytest.mark.parametrize("given", [None, True, 0.0, b"cpu", ["cpu"]])
def test_other_types(given):
    with pytest.raises(ArgumentTypeError, match="a device is named by a string — pass a name such as 'cpu' or"):
        parse_device(given)


def test_a_number_is_a_device_that_programs_mean_by_it():
    assert parse_device(1) == Device("cuda", 1)
    assert Device(0) == Device("cuda:0")
