import { SessionFromJSON, ProblemFromJSON } from './typescript-fetch/models';

/** Prints what the generated types make of answers of a later minor version. */
export function growth(text: string): string {
    const later = JSON.parse(text);
    const problem = ProblemFromJSON(later.problem);
    return [SessionFromJSON(later.session).handle, problem.code, problem.reason].join(' ');
}
