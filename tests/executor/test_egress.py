"""Addresses that no job may reach, in every spelling."""

import socket

import pytest

from executor.egress import AddressRefused, guarded_socket, literal_address, refusal

METADATA_SPELLINGS = [
    "169.254.169.254",
    "2852039166",
    "0xA9FEA9FE",
    "0xa9.0xfe.0xa9.0xfe",
    "0251.0376.0251.0376",
    "169.254.43518",
    "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe",
    "::169.254.169.254",
    "64:ff9b::169.254.169.254",
    "64:ff9b:1::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
    "2001:0:102:304::5601:5601",
]


@pytest.mark.parametrize("spelling", METADATA_SPELLINGS)
def test_the_metadata_address_is_refused_in_every_spelling(spelling: str) -> None:
    """(xxl-job#3375)"""
    address = literal_address(spelling)
    assert address is not None
    assert "link-local" in (refusal(address) or "")


@pytest.mark.parametrize(
    "address",
    [
        "169.254.0.1",
        "169.254.255.255",
        "169.254.170.2",
        "fe80::1",
        "fe80::1%eth0",
        "febf::ffff",
        "fd00:ec2::254",
        "100.100.100.200",
        "::ffff:100.100.100.200",
    ],
)
def test_link_local_and_metadata_addresses_are_refused(address: str) -> None:
    assert refusal(address) is not None


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "192.168.0.1",
        "169.253.255.255",
        "169.255.0.0",
        "::1",
        "fd00:ec2::253",
        "fec0::1",
        "8.8.8.8",
    ],
)
def test_private_and_public_addresses_are_allowed(address: str) -> None:
    assert refusal(address) is None


@pytest.mark.parametrize("host", ["example.com", "metadata.google.internal", "a9fea9fe", "", "1.2.3.4.5"])
def test_a_name_is_not_a_literal(host: str) -> None:
    assert literal_address(host) is None


def test_no_socket_is_made_for_a_refused_address() -> None:
    with pytest.raises(AddressRefused, match="link-local"):
        guarded_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("169.254.169.254", 80)))


def test_a_socket_is_made_for_an_allowed_address() -> None:
    with guarded_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 80))) as made:
        assert made.family == socket.AF_INET
