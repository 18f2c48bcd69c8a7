import Foundation

/// Answers of a later minor version.
struct Growth: Decodable {
    let session: Session
    let problem: Problem
}

@main
struct Program {
    static func main() throws {
        let data = try Data(contentsOf: URL(fileURLWithPath: CommandLine.arguments[1]))
        let growth = try CodableHelper().jsonDecoder.decode(Growth.self, from: data)
        print(growth.session.handle, growth.problem.code, growth.problem.reason ?? "")
    }
}
