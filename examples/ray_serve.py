"""Answers over HTTP from several processes, by Ray Serve:

    python3 ray_serve.py MODEL --workers 2
    curl -d '{"prompt": "Mia has 12 shells. She finds 7 more. How many?"}' http://127.0.0.1:8000/

Ray spreads requests over the workers; in each, requests that wait share forward passes. `lacuna serve` is the server with
OpenAI's API; this one is for clusters that run Ray anyway.
"""
import argparse
import time

from ray import serve
from starlette.requests import Request


@serve.deployment(max_ongoing_requests=64)
class Answerer:
    def __init__(self, model: str, threads: int):
        import lacuna

        self.error = lacuna.Error
        self.model = lacuna.load(model, threads=threads)

    async def __call__(self, request: Request):
        from starlette.responses import JSONResponse

        body = await request.json()
        try:
            answer = await self.model.generate_async(body.pop("prompt", ""), **body)
        except self.error as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        return {"text": answer.text, "tokens": answer.answer_tokens, "passes": answer.stats.forward_passes}


def application(model: str, workers: int = 2, threads: int = 1):
    options = {"num_replicas": workers, "ray_actor_options": {"num_cpus": threads}}
    return Answerer.options(**options).bind(model, threads)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--workers", type=int, default=2, help="processes, each with its own copy of the model")
    parser.add_argument("--threads", type=int, default=1, help="of each worker")
    arguments = parser.parse_args()
    serve.run(application(arguments.model, arguments.workers, arguments.threads))
    while True:
        time.sleep(60)
