"""Starts the pod watcher; everything it needs to know comes from ``KVBERTH_*`` and the pod's ServiceAccount."""

from kvberth.pod_watcher.service import SERVICE, main
from kvberth.pod_watcher.settings import PodWatcherSettings
from kvberth.service import serve

if __name__ == "__main__":
    serve(SERVICE, PodWatcherSettings, main)
