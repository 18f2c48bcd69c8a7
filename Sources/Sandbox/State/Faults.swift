/// The faults for one request.
struct Faults: Sendable {
    var all: [Fault] = []

    func has(_ name: String) -> Bool { all.contains { $0.name == name } }

    subscript(name: String) -> Fault? { all.first { $0.name == name } }
}
