"""The two roles on a model: what a backend completes is read, asked again once, and handed on.

memory_controller   tree_organizer        one method per operation
     └── role ── asking ──┘               render, complete, read, ask again, reply
                  └── protocols           JSON or sections: what this model can do
"""
