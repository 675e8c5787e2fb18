"""Runs ONE attempt on this machine: an assignment in, an outcome out."""
