import Broker

/// Parses opened records, whose kind the first byte chooses.
///
/// A record that is read, written and read again stays the same.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    var input = Input(start, count)
    let kind = input.byte()
    let bytes = input.bytes()
    switch kind % 5 {
    case 0:
        guard let facts = try? SessionFacts(record: bytes) else { return 0 }
        again(facts.record) { try SessionFacts(record: $0).record }
    case 1:
        guard let tokens = try? StoredTokens(record: bytes) else { return 0 }
        again(tokens.record) { try StoredTokens(record: $0).record }
    case 2:
        guard let login = try? LoginSecrets(record: bytes) else { return 0 }
        again(login.record) { try LoginSecrets(record: $0).record }
    case 3: _ = try? RegistrationSecrets(record: bytes)
    default:
        var reader = try? RecordReader(bytes, format: 2)
        while let pairs = try? reader?.pairs(), !pairs.isEmpty {}
    }
    return 0
}

private func again(_ record: [UInt8], _ read: ([UInt8]) throws -> [UInt8]) {
    guard let second = try? read(record) else { preconditionFailure("what was written does not read") }
    precondition(second == record)
}
