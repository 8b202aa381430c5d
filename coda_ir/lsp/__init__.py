"""The language server of `.coda` files; see docs/editors.md. Needs the extra `lsp` (pygls)."""
