import BrokerWire

extension Answer {
    /// Counts a streamed body as work under way for as long as it is written: a relayed one as part of its request,
    /// any other as an event stream.
    mutating func countWriting(in load: ServerLoad, asRequest: Bool) {
        guard case .stream(let length, let write) = body else { return }
        body = .stream(length: length) { writer in
            asRequest ? load.requestBegan() : load.streamBegan()
            defer { asRequest ? load.requestEnded() : load.streamEnded() }
            try await write(writer)
        }
    }
}
