// uses: BrokerWire/Upstream/UpstreamConnection.swift

/// Sends an upstream's bytes and an app's acts to the state machine of one connection.
///
/// Each byte of the input is an event with its time.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    var input = Input(start, count)
    var connection = UpstreamConnection(idle: 30, silence: 60, linger: 3, now: 0)
    var now: Int64 = 0
    // The state of the present call: whether it exists, whether it has ended, and the parts of its answer that were delivered.
    var isCalled = false, isEnded = false, hasHead = false
    var isWhole = false, isSurplus = false
    while !input.isEmpty {
        let byte = input.byte()
        now += Int64(byte >> 5)
        let before = connection
        let event = event(byte & 0x1F, now)
        let effects = event.map { connection.handle($0, at: now) } ?? connection.checkDeadlines(at: now)
        if case .call = event, before.phase == .idle {
            (isCalled, isEnded, hasHead, isWhole, isSurplus) = (true, false, false, false, false)
        }
        let ends = effects.contains(.finish) || effects.contains(.fail)
        precondition(!(effects.contains(.finish) && effects.contains(.fail)))
        // A call ends once. Only after that, its connection serves another call or closes.
        precondition(!ends || (isCalled && !isEnded))
        isEnded = isEnded || ends
        if effects.contains(.deliver) {
            precondition(isCalled && !isEnded)
            if case .head(let status, _) = event {
                precondition(!hasHead && (!(100...199).contains(status) || status == 101))
                hasHead = true
            } else {
                precondition(hasHead && event == .body)
            }
        }
        if event == .end, before.phase == .receiving { isWhole = true }
        // An answer that is reported as whole is whole. Bytes after it, or between calls, close the connection.
        precondition(!effects.contains(.finish) || isWhole)
        if event == .bytes, before.phase == .idle || before.phase == .draining || before.phase == .ending {
            isSurplus = true
        }
        if isSurplus { precondition(connection.phase == .closed) }
        if effects.contains(.release) {
            precondition(isEnded && isWhole && !isSurplus && connection.phase == .idle && !connection.isSending)
            isCalled = false
        }
        let isClosing = effects.contains(.close) || effects.contains(.reset)
        precondition(isClosing == (connection.phase == .closed && before.phase != .closed))
        precondition(effects.contains(.stopSending) == (before.isSending && connection.phase == .closed))
        if connection.phase == .closed { precondition(!isCalled || isEnded) }
    }
    return 0
}

private func event(_ number: UInt8, _ now: Int64) -> UpstreamConnection.Event? {
    switch number {
    case 0: .call(.init(limit: 10, begun: now))
    case 1: .call(.init(isLast: true, limit: 10, begun: now))
    case 2, 3: .call(.init(isStreamed: true, limit: 10, begun: now))
    case 4: .requestPart
    case 5: .requestEnd
    case 6: .requestCut
    case 7: .writable(false)
    case 8: .writable(true)
    case 9: .bytes
    case 10: .head(status: 200, keepsAlive: true)
    case 11: .head(status: 200, keepsAlive: false)
    case 12: .head(status: 413, keepsAlive: true)
    case 13: .head(status: 100, keepsAlive: true)
    case 14: .head(status: 101, keepsAlive: true)
    case 15: .head(status: 0, keepsAlive: true)
    case 16: .body
    case 17: .end
    case 18: .readComplete
    case 19: .malformed
    case 20: .wanted(false)
    case 21: .wanted(true)
    case 22: .taken
    case 23: .abandoned
    case 24: .gone
    case 25: .call(.init(hasBody: true, limit: 10, begun: now))
    default: nil
    }
}
