package import HTTPTypes

/// The service that answers a listener's requests.
package protocol WireService: Sendable {
    /// Answers a request.
    ///
    /// Every failure becomes an answer, so this method does not throw.
    func respond(to request: HTTPRequest, body: RequestBody, of connection: ClientConnection) async -> Answer

    /// Returns the complete answer to input that was refused before it became a request.
    func refuse(_ refusal: FramingRefusal, on connection: ClientConnection) -> Answer

    /// Returns whether an HTTP/1.0 request without `Host` is answered for this target.
    func answersWithoutHost(_ target: String) -> Bool
}
