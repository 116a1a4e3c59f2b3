"""Controllers: what proposes for a bank. They import `epimem`, never an adapter."""
