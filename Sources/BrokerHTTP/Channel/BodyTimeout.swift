/// An error thrown into a request's body when it came too slowly; the answer is 408.
struct BodyTimeout: Error {}
