class Runner:
    def __init__(self, components, root):
        self.components, self.root = components, root

    def run(self, spark):
        ctx = {'spark': spark, 'root': self.root}
        for c in self.components:
            ctx.update(c.execute(ctx) or {})
        return ctx['result']
