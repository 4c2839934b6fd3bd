"""Threadmill's pipeline: streams of agent events in, complete conversations out."""
