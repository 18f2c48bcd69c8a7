import Broker

/// Reads the fields of a form request by name and collects every fault, like `RequestObject`.
struct RequestForm {
    private let pairs: FormPairs
    private var faults: [FieldFault] = []
    private var read: Set<String> = []

    /// Parses a form; a field that stands twice is refused (RFC 6749 section 3.1).
    init(parsing bytes: [UInt8]) throws(BrokerProblem) {
        guard let text = String(validating: bytes, as: UTF8.self) else { throw Self.malformed }
        do throws(FormPairs.Failure) { pairs = try FormPairs(parsing: text) } catch {
            if case .duplicate(let name) = error {
                throw BrokerProblem(.invalidRequest, errors: [FieldFault(String(name.prefix(64)), .duplicate)])
            }
            throw Self.malformed
        }
    }

    private static var malformed: BrokerProblem {
        BrokerProblem(.invalidRequest, detail: "The body is not a well-formed form.", errors: [FieldFault("", .malformed)])
    }

    /// Returns a field that may be missing.
    mutating func text(_ name: String, maximum: Int) -> String? {
        read.insert(name)
        guard let text = pairs[name], !text.isEmpty else { return nil }
        guard text.utf8.count <= maximum else {
            faults.append(FieldFault(name, .tooLong))
            return nil
        }
        return text
    }

    /// Returns a field that has to be there.
    mutating func requiredText(_ name: String, maximum: Int) -> String? {
        if pairs[name]?.isEmpty ?? true { faults.append(FieldFault(name, .required)) }
        return text(name, maximum: maximum)
    }

    /// Throws everything that was found wrong. Unknown fields are ignored, as OAuth wants it.
    consuming func finish() throws(BrokerProblem) {
        guard faults.isEmpty else { throw BrokerProblem(.invalidRequest, errors: faults) }
    }
}
