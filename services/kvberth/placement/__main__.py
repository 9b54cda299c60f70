"""Starts placement."""

from kvberth.placement.service import main
from kvberth.placement.settings import PlacementSettings
from kvberth.service import serve

if __name__ == "__main__":
    serve("placement", PlacementSettings, main)
