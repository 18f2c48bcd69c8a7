import Broker

/// Reads the fields of a form request by name and collects every fault, like `RequestObject`.
struct RequestForm {
    private let pairs: FormPairs
    private var faults: [FieldFault] = []
    private var read: [String] = []

    /// Parses a form; a field that stands twice is refused (RFC 6749 section 3.1).
    init(parsing bytes: [UInt8]) throws(BrokerProblem) {
        pairs = try Self.pairs(bytes)
    }

    /// Parses a form's pairs.
    static func pairs(_ bytes: [UInt8]) throws(BrokerProblem) -> FormPairs {
        guard let text = String(validating: bytes, as: UTF8.self) else { throw malformed }
        do throws(FormPairs.Failure) { return try FormPairs(parsing: text) } catch {
            guard case .duplicate(let name) = error else { throw malformed }
            throw BrokerProblem(.invalidRequest, errors: [FieldFault(name.firstScalars(64), .duplicate)])
        }
    }

    private static var malformed: BrokerProblem {
        BrokerProblem(
            .invalidRequest, detail: "The body is not a well-formed form.", errors: [FieldFault("", .malformed)])
    }

    /// Returns a field of visible ASCII.
    mutating func visible(_ name: String, required: Bool, maximum: Int) -> String? {
        read.append(name)
        guard let text = pairs[name] else {
            if required { faults.append(FieldFault(name, .required)) }
            return nil
        }
        if let code = RequestText.fault(in: text, length: 1...maximum, where: RequestText.isVisible) {
            faults.append(FieldFault(name, code))
            return nil
        }
        return text
    }

    /// Checks that a field, if it is there, has the only value it may have.
    mutating func expect(_ name: String, _ value: String, required: Bool) {
        guard let text = visible(name, required: required, maximum: 256), text != value else { return }
        faults.append(FieldFault(name, .notAllowed))
    }

    /// Throws everything that was found wrong; unknown fields too, unless they are to be ignored.
    consuming func finish(ignoringUnknown: Bool = false) throws(BrokerProblem) {
        let unknown =
            ignoringUnknown ? [] : pairs.pairs.map(\.name).filter { name in !read.contains { $0.hasBytes(of: name) } }
        let all = faults + unknown.prefix(16).map { FieldFault($0.firstScalars(64), .unknown) }
        guard all.isEmpty else { throw BrokerProblem(.invalidRequest, errors: all) }
    }
}
