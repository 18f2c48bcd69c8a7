import BrokerWire
package import HTTPTypes
package import NIOCore

/// An upstream's answer, ready for the app: what must not reach it is gone, `Coatcheck-Source` is in.
package struct RelayResponse: Sendable {
    /// A response body.
    package enum Body: Sendable {
        /// HEAD, 204, 304, or a body of no bytes.
        case none
        /// A small one, whole: head and body can leave in one write.
        case buffered(ByteBuffer)
        /// Iterate it to its end or its error before the request's handler returns; let it go early only together with
        /// the connection.
        case stream(RelayBody)
    }

    package let status: HTTPResponse.Status
    /// Without framing fields: those are the server's to write.
    package var headers: HTTPFields
    /// The value of `Content-Length`: the body's length, or for HEAD what the upstream said; nil when unknown.
    package let contentLength: Int?
    package let body: Body
}

/// An upstream's response body, streamed with back-pressure: the next chunk is read when it is asked for.
///
/// Throws when the upstream breaks off or says nothing for the read timeout; the app's connection must then be cut, not
/// ended.
package struct RelayBody: AsyncSequence, Sendable {
    package typealias Element = ByteBuffer

    let response: UpstreamResponse
    let place: UpstreamConcurrency.Place

    package struct AsyncIterator: AsyncIteratorProtocol {
        let body: RelayBody

        package mutating func next() async throws -> ByteBuffer? { try await body.response.next() }
    }

    package func makeAsyncIterator() -> AsyncIterator { AsyncIterator(body: self) }

    /// Closes the upstream's connection, from any thread: the wait for the next chunk ends by an error.
    package func close() { response.abandon() }
}
