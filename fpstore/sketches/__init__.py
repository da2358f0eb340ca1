"""What a store keeps of MinHash signatures: the keys of their bands, and a sketch of each, some bits a value."""
