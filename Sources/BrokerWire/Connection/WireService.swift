package import HTTPTypes

/// What the connections of a listener serve.
package protocol WireService: Sendable {
    /// Answers a request; whatever becomes of it has an answer.
    func respond(to request: HTTPRequest, body: RequestBody, of connection: ClientConnection) async -> Answer

    /// Returns the whole answer to what is not answered as a request.
    func refuse(_ refusal: FramingRefusal, on connection: ClientConnection) -> Answer
}
