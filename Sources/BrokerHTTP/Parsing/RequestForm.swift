import Broker

/// Reads the fields of a form request by name and collects all faults, like `RequestObject`.
struct RequestForm {
    private let pairs: FormPairs
    private var faults: [FieldFault] = []
    private var read: [String] = []

    /// Parses a form of unique, well-formed fields (RFC 6749 section 3.1).
    ///
    /// Only the field `repeatable` may occur more than once.
    init(parsing bytes: [UInt8], repeatable: String? = nil) throws(BrokerProblem) {
        do throws(FormPairs.Failure) {
            pairs = try FormPairs(parsing: bytes, repeatable: repeatable, skipsEmpty: true)
        } catch { throw Self.problem(error) }
    }

    /// Parses a form for the fields that its route knows.
    init(parsing bytes: [UInt8], for names: FormNames) throws(BrokerProblem) {
        pairs = try Self.pairs(bytes, for: names)
    }

    /// Returns the pairs of a form, for the fields that its route knows.
    static func pairs(_ bytes: [UInt8], for names: FormNames) throws(BrokerProblem) -> FormPairs {
        do throws(FormPairs.Failure) { return try FormPairs(reading: names, of: bytes) } catch {
            throw problem(error, names)
        }
    }

    private static func problem(_ failure: FormPairs.Failure, _ names: FormNames? = nil) -> BrokerProblem {
        let words = failure.text(names)
        var fault = FieldFault("", .malformed)
        switch failure {
        case .duplicate(let name): fault = FieldFault(name.firstScalars(64), .duplicate)
        case .malformed(let form): if let name = form.name { fault = FieldFault(name, .malformed) }
        case .tooManyPairs: fault = FieldFault("", .tooLong)
        }
        return BrokerProblem(
            .invalidRequest, detail: "The form is malformed: \(words).", privateDetail: words,
            with: .fields([fault]))
    }

    /// Returns an optional field; an empty field counts as missing (RFC 6749 section 3.2).
    mutating func optional(
        _ name: String, maximum: Int, where allows: (Unicode.Scalar) -> Bool = RequestText.isVisible
    ) -> String? {
        read.append(name)
        guard let text = pairs[name], !text.isEmpty else { return nil }
        return checked(text, name, maximum, allows)
    }

    /// Returns a field of visible ASCII.
    mutating func visible(_ name: String, required: Bool, maximum: Int) -> String? {
        text(name, required: required, maximum: maximum, where: RequestText.isVisible)
    }

    /// Returns a field, and reports a fault unless `allows` accepts all its characters.
    mutating func text(
        _ name: String, required: Bool, maximum: Int, where allows: (Unicode.Scalar) -> Bool
    ) -> String? {
        read.append(name)
        guard let text = pairs[name] else {
            if required { faults.append(FieldFault(name, .required)) }
            return nil
        }
        return checked(text, name, maximum, allows)
    }

    /// Returns all values of a repeatable field, of visible ASCII.
    mutating func list(_ name: String, maximum: Int, count: Int) -> [String] {
        read.append(name)
        let all = pairs.values(name)
        if all.count > count { faults.append(FieldFault(name, .tooLong)) }
        return all.prefix(count).compactMap { checked($0, name, maximum, RequestText.isVisible) }
    }

    private mutating func checked(
        _ text: String, _ name: String, _ maximum: Int, _ allows: (Unicode.Scalar) -> Bool
    ) -> String? {
        guard let code = RequestText.fault(in: text, length: 1...maximum, where: allows) else { return text }
        faults.append(FieldFault(name, code))
        return nil
    }

    /// Adds a fault that the caller found.
    mutating func fault(_ name: String, _ code: FieldFault.Code) { faults.append(FieldFault(name, code)) }

    /// Adds a fault if a field is present and differs from its only allowed value, or if a required field is missing.
    mutating func expect(_ name: String, _ value: String, required: Bool) {
        guard let text = visible(name, required: required, maximum: 256), text != value else { return }
        faults.append(FieldFault(name, .notAllowed))
    }

    /// Throws all faults that were found.
    ///
    /// Unknown fields count as faults unless they are to be ignored.
    consuming func finish(ignoringUnknown: Bool = false) throws(BrokerProblem) {
        let unknown =
            ignoringUnknown ? [] : pairs.pairs.map(\.name).filter { name in !read.contains { $0.hasBytes(of: name) } }
        let all = faults + unknown.prefix(16).map { FieldFault($0.firstScalars(64), .unknown) }
        guard all.isEmpty else { throw BrokerProblem(.invalidRequest, with: .fields(all)) }
    }
}
