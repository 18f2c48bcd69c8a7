import BrokerWire
package import HTTPTypes
package import NIOCore

/// An upstream's answer, ready for the app, with forbidden fields removed and `Coatcheck-Source` added.
package struct RelayResponse: Sendable {
    /// A response body.
    package enum Body: Sendable {
        /// HEAD, 204, 304, or an empty body.
        case none
        /// A small body, complete, so that one write sends header and body.
        case buffered(ByteBuffer)
        /// A stream.
        ///
        /// Read it to its end or its error before the request's handler returns. Release it earlier only together with the
        /// connection.
        case stream(RelayBody)
    }

    package let status: HTTPResponse.Status
    /// The fields.
    ///
    /// The server adds the framing fields.
    package var headers: HTTPFields
    /// The value of `Content-Length`, or nil if unknown.
    ///
    /// For HEAD it is the upstream's value, else the body's length.
    package let contentLength: Int?
    package let body: Body
}

/// An upstream's response body, streamed with back-pressure.
///
/// The next chunk is read on demand.
///
/// Throws if the upstream breaks off, or is silent for the read timeout. Then cut the app's connection instead of ending
/// the body.
package struct RelayBody: AsyncSequence, Sendable {
    package typealias Element = ByteBuffer

    let response: UpstreamResponse
    let place: UpstreamConcurrency.Place

    package struct AsyncIterator: AsyncIteratorProtocol {
        let body: RelayBody

        package mutating func next() async throws -> ByteBuffer? { try await body.response.next() }
    }

    package func makeAsyncIterator() -> AsyncIterator { AsyncIterator(body: self) }

    /// Closes the upstream's connection, from any thread.
    ///
    /// The wait for the next chunk then fails.
    package func close() { response.abandon() }
}
