"""What tests need inside the guest: backing file systems, NFS servers, mounts, trees of files, and a small case runner."""
