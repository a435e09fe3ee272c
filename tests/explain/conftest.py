"""Tests of explanations use the cluster of the allocator's tests."""

from scene import ask, scene, scene_with, ticking

__all__ = ["ask", "scene", "scene_with", "ticking"]
