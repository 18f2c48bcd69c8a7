import BrokerWire
package import NIOCore

/// An upstream's response body, streamed with back-pressure.
///
/// The next piece is read only when the reader requests it.
///
/// Reading throws if the upstream breaks off or stays silent for the read timeout. The caller must then cut the app's
/// connection instead of ending the body.
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
    /// The wait for the next piece then fails.
    package func close() { response.abandon() }
}
