"""Starts the transfer worker of one cache; everything it needs to know comes from ``KVBERTH_*``."""

from kvberth.service import serve
from kvberth.transfer_worker.service import SERVICE, main
from kvberth.transfer_worker.settings import TransferWorkerSettings

if __name__ == "__main__":
    serve(SERVICE, TransferWorkerSettings, main)
