"""Fixtures that several test areas share: real servers, started and ended by pid."""
